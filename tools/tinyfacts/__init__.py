"""What built the embedded model and checks it; no user imports this (`python -m tools.tinyfacts --help`)."""
