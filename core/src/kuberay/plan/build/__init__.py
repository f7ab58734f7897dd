"""Builders that plans and plugins share: shell commands, hook contexts, pods and services.

Importing this package loads nothing; import the module that decides what you need.
"""
