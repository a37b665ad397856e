"""The constants of a roofline, fitted on measured operators."""
