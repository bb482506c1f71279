"""The process that supple runs in: threads, instruction set, forks and the end of the program."""
