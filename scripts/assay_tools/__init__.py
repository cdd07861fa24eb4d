"""The Python side of assay: the regression gate, the plots and the HTML report."""
