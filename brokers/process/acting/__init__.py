"""What carries out the rules of `brokers/acting` in a broker process (PROTOCOL 7).

Refuses to know: the rules.
"""
