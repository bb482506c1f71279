"""Arrays: checks of what a caller gives, the errors that they raise, and files of arrays."""
