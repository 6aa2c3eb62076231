"""Training: Algorithm 1 in `reinforce`, and the parts that vary around it: rewards, choices, schedules."""
