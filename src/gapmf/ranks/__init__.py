"""How many components there are: what each is worth, and how surely it comes back."""
