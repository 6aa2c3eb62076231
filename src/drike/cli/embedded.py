"""`drike tinyfacts`: make the embedded model again, or check that it behaves as promised."""

from __future__ import annotations

import typer

app = typer.Typer(help="The embedded benchmark and model: build and check them.", no_args_is_help=True)


@app.callback()
def tinyfacts() -> None:
    """Build and check the embedded model."""
