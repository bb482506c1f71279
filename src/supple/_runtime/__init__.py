"""Settings of the process that runs supple, its forks, and the cleanup at its end."""
