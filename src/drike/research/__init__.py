"""In-context editing studied: data sets, editors, training, evaluation, and the runs and reports that record them."""
