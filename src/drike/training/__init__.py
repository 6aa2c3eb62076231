"""Training: Algorithm 1, the rewards it learns from, and the schedules around it."""
