"""What every file of the store needs: errors of disks, descriptors, space, durable replacement."""
