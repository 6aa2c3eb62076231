"""Local weights: transformers models, and the scoring engine that reads shared prefixes once."""
