"""Descriptions of converted files."""
