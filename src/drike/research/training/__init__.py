"""Training: Algorithm 1 with its parts (`algorithm1`), and DR-IKE-Q on S (`s_objective`)."""
