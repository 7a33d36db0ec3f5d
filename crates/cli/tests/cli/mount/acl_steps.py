# Goes through a random sequence of operations of several users on access control lists in a directory, and prints what comes of each.
import errno, os, random, stat, struct, sys

root, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
pick = random.Random(seed)
ACCESS, DEFAULT = 'system.posix_acl_access', 'system.posix_acl_default'
NO_ID = 0xffffffff
# User, group, and other groups.
users = [(0, 0, []), (4001, 4001, [4101]), (4002, 4002, [4101, 4102]), (4003, 4102, [])]
names = ['a', 'b', 'd', 'd/a', 'd/b', 'd/d', 'd/d/a', 'e', 'e/a']

def any_list():
    some = lambda ids: [(pick.choice(ids), pick.randrange(8)) for _ in range(pick.choice([0, 0, 1, 2]))]
    named_users, named_groups = some([4001, 4002, 4003, 4009]), some([4101, 4102, 4001])
    entries = [(1, pick.randrange(8), NO_ID)]
    entries += [(2, bits, user) for user, bits in named_users]
    entries += [(4, pick.randrange(8), NO_ID)]
    entries += [(8, bits, group) for group, bits in named_groups]
    if named_users or named_groups or pick.random() < 0.2:
        entries += [(16, pick.choice([0, 4, 5, 6, 7, 7, 7]), NO_ID)]
    entries += [(32, pick.randrange(8), NO_ID)]
    # Some lists are none.
    if pick.random() < 0.1:
        del entries[pick.randrange(len(entries))]
    if pick.random() < 0.05:
        pick.shuffle(entries)
    return struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *entry) for entry in entries)

def shown(value):
    # The kernel names the owner and the group where it keeps these entries; only named ones have ids.
    entries = struct.iter_unpack('<HHI', value[4:])
    return [entry if entry[0] in (2, 8) else entry[:2] for entry in entries]

def read(path):
    with open(path, 'rb') as file:
        return len(file.read())

def write(path):
    os.close(os.open(path, os.O_WRONLY))

def read_write(path):
    os.close(os.open(path, os.O_RDWR))

def create(path, mode, umask):
    os.umask(umask)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))

def mkdir(path, mode, umask):
    os.umask(umask)
    os.mkdir(path, mode)

def mkfifo(path, mode, umask):
    # Nobody opens it, which would wait for another program.
    os.umask(umask)
    os.mkfifo(path + '.pipe', mode)
    return look(path + '.pipe')

def look(path):
    found = os.stat(path)
    lists = []
    for name in ACCESS, DEFAULT:
        try:
            lists.append(shown(os.getxattr(path, name)))
        except OSError as error:
            lists.append(errno.errorcode[error.errno])
    return oct(found.st_mode), found.st_uid, found.st_gid, lists, sorted(os.listxattr(path))

def step():
    path, mode = pick.choice(names), pick.choice([0o777, 0o666, 0o640, 0o755, 0o2755, 0o600, pick.randrange(0o1000)])
    other, umask, acl = pick.choice(names), pick.choice([0, 0o022, 0o077, 0o007]), any_list()
    kind = pick.choice([ACCESS, ACCESS, DEFAULT])
    owner = pick.choice(users)
    return pick.choice([
        ('look', lambda: look(path)),
        ('look', lambda: look(path)),
        ('read', lambda: read(path)),
        ('write', lambda: write(path)),
        ('read and write', lambda: read_write(path)),
        ('list', lambda: sorted(os.listdir(path))),
        ('access', lambda: [os.access(path, bits, effective_ids=True) for bits in range(8)]),
        ('create', lambda: create(path, mode, umask)),
        ('create', lambda: create(path, mode, umask)),
        ('mkdir', lambda: mkdir(path, mode, umask)),
        ('mkdir', lambda: mkdir(path, mode, umask)),
        ('mkfifo', lambda: mkfifo(path, mode & 0o777, umask)),
        ('set list', lambda: os.setxattr(path, kind, acl)),
        ('set list', lambda: os.setxattr(path, kind, acl)),
        ('set list', lambda: os.setxattr(path, kind, acl)),
        ('remove list', lambda: os.removexattr(path, kind)),
        ('chmod', lambda: os.chmod(path, mode)),
        ('chown', lambda: os.chown(path, owner[0], owner[1])),
        ('unlink', lambda: os.unlink(path)),
        ('rename', lambda: os.rename(path, other)),
    ]), path

def run(user, what):
    """What an operation of a user returns, in a process of that user."""
    output, into = os.pipe()
    child = os.fork()
    if child == 0:
        uid, gid, groups = user
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        try:
            said = repr(what())
        except OSError as error:
            said = errno.errorcode[error.errno]
        os.write(into, said.encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(output) as said:
        result = said.read()
    os.waitpid(child, 0)
    return result

os.chdir(root)
os.chmod('.', 0o777)
for number in range(steps):
    user = pick.choice(users)
    (name, what), path = step()
    print(number, user[0], name, path, run(user, what))
