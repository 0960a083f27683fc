"""What must hold in all history: rules over landed rows, alarms, and the check that keeps them."""
