"""Flower, started without its entry point: the sources may lie in a folder of their own."""
import sys

from celery.bin.celery import celery
from flower.command import flower

celery.add_command(flower)
sys.argv[0] = 'celery'
celery()
