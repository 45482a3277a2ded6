"""Inspection: descriptions of converted files."""
