"""Scripts of the project that no user imports."""
