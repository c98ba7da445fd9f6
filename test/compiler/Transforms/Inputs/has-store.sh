#!/bin/sh
# For reduce.test: 1 where a file still has a store, which stands for a defect.
! grep -q fsdp.store "$1"
