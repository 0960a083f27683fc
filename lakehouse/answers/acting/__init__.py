"""Answers about sets without controllers: nobody is elected there, slaves act for their master."""
