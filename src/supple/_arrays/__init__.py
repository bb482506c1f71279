"""Arrays: checks of arguments, the errors that these checks raise, and files of arrays."""
