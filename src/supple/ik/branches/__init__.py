"""All solutions of a pose, in closed form or as eigenvalues, and comparison of their branches."""
