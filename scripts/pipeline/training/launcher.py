"""torchrun that ends with the command that started it; its workers end with it in turn."""

from torch.distributed.run import main

from ..processes import end_with_parent

if __name__ == "__main__":
    end_with_parent()
    main()
