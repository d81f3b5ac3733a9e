"""torchrun, but it ends together with the command that started it, and its workers end together with it."""

from torch.distributed.run import main

from ..processes import end_with_parent

if __name__ == "__main__":
    end_with_parent()
    main()
