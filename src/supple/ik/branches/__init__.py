"""All solutions of a pose: in closed form, or as eigenvalues; and the branch of a solution."""
