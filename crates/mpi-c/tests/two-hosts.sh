# Runs a command where processes can enter a second network, with one link between that and their own: two hosts, as far as
# methods can tell. To be started in user, network and mount namespaces of its own (unshare --user --map-root-user --net --mount).
# The second has a further address, from which nothing replies: what is sent there gets lost, as in a network of which a firewall drops packets.
# With `--host` as its first argument it runs the rest in the network for the process's rank: odd ones in the second.
set -e
if [ "$1" = --host ]; then
    shift
    if [ $((PMI_RANK % 2)) = 1 ]; then
        exec nsenter --net --target "$SECOND_HOST" "$@"
    fi
    exec "$@"
fi
ip link set lo up
unshare --net sleep 60 &
SECOND_HOST=$!
export SECOND_HOST
trap 'kill $SECOND_HOST' EXIT
while [ "$(readlink "/proc/$SECOND_HOST/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do
    sleep 0.01
done
ip link add one type veth peer name two netns "$SECOND_HOST"
ip address add 10.77.0.1/24 dev one
ip link set one up
ip route add 10.99.0.0/24 via 10.77.0.9 dev one
ip neighbour add 10.77.0.9 lladdr 02:00:00:00:00:01 dev one nud permanent
nsenter --net --target "$SECOND_HOST" sh -ec \
    'ip link set lo up; ip address add 10.99.0.2/32 dev lo; ip address add 10.77.0.2/24 dev two; ip link set two up'
"$@"
