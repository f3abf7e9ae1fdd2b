"""A virtual machine with the Linux kernel's OpenAFS client, attached to a private cell."""

from deploy.vm.guest import Guest, Guests
from deploy.vm.image import Image, Images
from deploy.vm.qemu import GuestOptions

__all__ = ["Guest", "GuestOptions", "Guests", "Image", "Images"]
