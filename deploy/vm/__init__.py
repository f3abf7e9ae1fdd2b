"""Virtual machine with the OpenAFS kernel client for Linux, attached to a private cell."""

from deploy.vm.guest import Guest, Guests
from deploy.vm.image import Images
from deploy.vm.qemu import GuestOptions

__all__ = ["Guest", "GuestOptions", "Guests", "Images"]
