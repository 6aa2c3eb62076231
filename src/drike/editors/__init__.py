"""How edits become prompts: `editor.Editor` is the protocol, `catalog.make` the list of all editors."""
