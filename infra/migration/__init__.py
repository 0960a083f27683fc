"""Moving broker sets from and to Java controllers."""
