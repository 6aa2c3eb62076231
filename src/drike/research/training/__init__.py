"""Training: Algorithm 1 in `algorithm1`, and the parts that vary around it: rewards, choices, schedules."""
