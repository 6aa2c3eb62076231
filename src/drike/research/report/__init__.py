"""Outcomes as the paper's tables and figures, and runs as one self-contained page (`page` loads jinja2)."""
