"""Frozen language models: what they offer (`protocols`), local weights (`local`), models behind an API (`served`)."""
