"""Outcomes as the paper's tables and figures, and runs as one self-contained page.

`document` puts a report together from what `reading` read and `groups` grouped; `page`, which loads jinja2, writes it.
"""
