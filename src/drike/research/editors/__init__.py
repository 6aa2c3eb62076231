"""How edits become prompts: `catalog.Editor` is the protocol, `catalog.make` the list of all editors."""
