"""Programs that write files of this repository. No part of restow: nothing that is installed imports them."""
