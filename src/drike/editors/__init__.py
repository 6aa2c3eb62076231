"""How an edit becomes a prompt; one editor per file, all behind one method, and `catalog.make` as their one list."""
