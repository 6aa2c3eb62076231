"""Outcomes as the paper's tables and figures, and runs as one self-contained page.

`page` and `tour` load jinja2, the others do not.
"""
