"""Published figures set against simulations of what they were measured on."""
