"""In-context editing studied: data sets, editors, training and evaluation.

Runs and reports record them; `deployment` holds a model with many edits in force.
"""
