"""What carries out the rules of `brokers/changeover` in a broker process (PROTOCOL 7.8).

Refuses to know: the rules.
"""
