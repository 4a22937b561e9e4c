import sys

from swe_pytest.cli import main

sys.exit(main())
