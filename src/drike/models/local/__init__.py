"""Local weights: transformers models, and a scoring engine that reads shared prefixes once."""
