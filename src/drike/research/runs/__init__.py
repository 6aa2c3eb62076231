"""A run's folder, its checkpoint, and resuming a stopped run."""
