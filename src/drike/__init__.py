"""drike: in-context knowledge editing for language models whose weights you cannot touch."""
