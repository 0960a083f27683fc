"""Who is heard, and when silence calls for an election. Pure: takes the time as an argument."""
