"""What is said of an object before it is stored: what is wrong with it, what to warn of, and which defaults it has."""
