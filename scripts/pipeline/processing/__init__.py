"""What happens to text on both sides of a model, as its ``prepare.json`` says: one class for each kind of subwords."""
