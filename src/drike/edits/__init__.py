"""The nouns: an edit and its probes (`edit`), what a store keeps of it (`record`), to which requests it applies."""
