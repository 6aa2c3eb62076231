"""Models behind an OpenAI-compatible API: the client, log-probabilities, spending, and the answer cache."""
